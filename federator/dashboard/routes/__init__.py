"""What each page gathers for its reader. A module per part of the navigation."""

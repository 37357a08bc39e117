"""Rules in the Common Expression Language: parsing, evaluating, the values rules see."""

"""The gateway's API as data: documents, problems, addresses, and the OpenAPI document of them."""

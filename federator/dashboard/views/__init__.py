"""View models: what each page shows, as plain objects, made from rows and answers. Pure. The
template of a page renders its view model, and `?format=json` returns it."""

"""Claims on data sets: tables of ratings as files hold them."""

"""A whole report: measurements of everything, tables and plots of them."""

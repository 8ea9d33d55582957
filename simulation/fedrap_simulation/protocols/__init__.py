"""What may be learnt from, what is asked, and how answers are scored."""

"""What a load test measures: one outcome a request, added up per target, merged across workers."""

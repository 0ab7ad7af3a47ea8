"""Results: tables with their pictures, pages and texts."""

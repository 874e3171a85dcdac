-- tables_of: the tables of somebody else's SQLite file with their columns; no views and no virtual tables, which run code.
SELECT tables.name, columns.name
FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND tables.rootpage > 0
ORDER BY tables.name, columns.cid

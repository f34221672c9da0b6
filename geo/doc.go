// Package geo turns addresses into places and compiles scope sets into prefix tables.
//
// A DB is an immutable stack of sources, the most preferred first: operator prefix lists, mmdb files, the built-in
// country table. Compile projects a DB on the scopes of one service: the Table answers, per address, which scope wins
// and how wide the block is in which that holds. A name server holds tables only; the DB lives with control. A Store
// keeps the current DB, and keeps it when a new file turns out bad.
package geo

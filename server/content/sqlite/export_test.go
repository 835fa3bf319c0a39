package sqlite

// OpenAs opens a database to read it.
var OpenAs = openAs

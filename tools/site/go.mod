module github.com/keywright/keywright/tools/site

go 1.26.0

require github.com/yuin/goldmark v1.8.7

require golang.org/x/mod v0.41.0

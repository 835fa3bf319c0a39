module github.com/keywright/keywright/server/test/proxies

go 1.26.0

require github.com/keywright/keywright v0.0.0

replace github.com/keywright/keywright => ../../..

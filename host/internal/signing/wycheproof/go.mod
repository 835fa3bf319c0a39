module github.com/keywright/keywright/host/internal/signing/wycheproof

go 1.26.4

require (
	github.com/c2sp/wycheproof v0.0.0-20260902155932-3fa63dd0344a
	github.com/keywright/keywright v0.0.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/golang-jwt/jwt/v5 v5.3.1 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
)

replace github.com/keywright/keywright => ../../../..

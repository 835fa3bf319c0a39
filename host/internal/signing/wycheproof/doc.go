// Package wycheproof holds nothing but tests: package signing against the vectors of C2SP's Wycheproof project. It is a
// module of its own, so that who uses Keywright does not download the vectors.
package wycheproof

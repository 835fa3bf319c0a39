// Package wycheproof tests package signing with the vectors of C2SP's Wycheproof project. It has nothing but tests. It
// is a module of its own, so that users of Keywright do not download the vectors.
package wycheproof

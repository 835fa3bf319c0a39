// Package ast has no syntax.
package ast

const RegoV0 = 0

// Package aws has no key.
package aws

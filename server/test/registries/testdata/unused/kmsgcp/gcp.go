// Package gcp has no key.
package gcp

// Package azure has no key.
package azure

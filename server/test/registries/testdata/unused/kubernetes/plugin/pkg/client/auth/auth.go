// Package auth has no plugin.
package auth

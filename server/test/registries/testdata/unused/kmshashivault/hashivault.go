// Package hashivault has no key.
package hashivault

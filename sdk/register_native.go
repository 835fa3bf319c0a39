//go:build !tinygo && !wasip1

package sdk

// Register makes p the plugin of this module. Call it from an init function. Natively compiled it does nothing, because
// package hosttest receives the plugin as an argument.
func Register(Plugin) {}

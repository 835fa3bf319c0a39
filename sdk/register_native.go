//go:build !tinygo && !wasip1

package sdk

// Register sets the plugin of this module. Call it from an init function. It has no effect in natively compiled code,
// where package hosttest takes the plugin as an argument.
func Register(Plugin) {}

//go:build !tinygo && !wasip1

package sdk

// Register makes p the plugin of this module. Compiled natively it does nothing: package hosttest is given the plugin.
func Register(Plugin) {}

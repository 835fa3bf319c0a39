//go:build !tinygo && !wasip1

package sdk

import (
	"errors"

	"github.com/keywright/keywright/internal/contract"
)

// Register sets the plugin of this module. Call it from an init function. It has no effect in natively compiled code,
// where package hosttest takes the plugin as an argument.
func Register(Plugin) {}

func init() { contract.Dispatch = dispatch }

// dispatch runs one export of a plugin and returns its output.
func dispatch(plugin any, env contract.Env, export string) (string, error) {
	switch p := plugin.(Plugin); export {
	case contract.ExportDescribe:
		return describePlugin(p), nil
	case contract.ExportValidate:
		return "", validateConfig(p, env)
	case contract.ExportAuthenticate:
		return authenticateCall(p, env)
	case contract.ExportConsent:
		return consentCall(p, env)
	case contract.ExportConnect:
		return "", connectCall(p, env)
	case contract.ExportDisconnect:
		return "", disconnectCall(p, env)
	}
	return "", errors.New("there is no export " + export)
}

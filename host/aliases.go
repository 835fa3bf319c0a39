package host

import (
	"context"
	"fmt"
	"maps"
	"strings"
)

// aliases puts the name of each field in place of the alias that the configuration has. From here on the connector is as if it had
// been configured with that name, with its partition in the cache, its grants and its sinks. Only errors have the alias.
func (k *checker) aliases() {
	c := k.connector
	authConfig := c.config.Auth.Config
	c.aliases = map[string]string{}
	config := maps.Clone(authConfig)
	for _, f := range c.plugin.info.Fields {
		_, present := authConfig[f.Name]
		configName := f.Name
		for _, alias := range f.Aliases {
			value, there := authConfig[alias]
			switch {
			case !there:
				continue
			case present:
				k.Wrong(c.path(alias), "is a former name of %s, and %s is there too: remove it", f.Name, configName)
			default:
				config[f.Name], c.aliases[f.Name] = value, alias
				present, configName = true, alias
			}
			delete(config, alias)
		}
	}
	c.config.Auth.Config = config
}

// path returns the path of a field, or of a member within one, in the connector as it is written.
func (c *Connector) path(field string) string {
	name, rest, nested := strings.Cut(field, ".")
	if alias := c.aliases[name]; alias != "" {
		name = alias
	}
	if nested {
		name += "." + rest
	}
	return "auth.config." + name
}

// warnOfAliases warns of deprecated names of fields.
func (c *Connector) warnOfAliases(ctx context.Context) {
	for _, f := range c.plugin.info.Fields {
		if c.aliases[f.Name] != "" {
			c.log.warn(ctx, c.path(f.Name), fmt.Sprintf("is a deprecated name, use %q", f.Name))
		}
	}
}

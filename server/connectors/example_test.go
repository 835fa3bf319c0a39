package connectors_test

import (
	"context"
	"fmt"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
)

// A definition may also be JSON, for example from a database. A misspelt limit is refused, because it would have no effect.
func ExampleRead() {
	ctx := context.Background()
	options := connectors.Options{Host: host.Config{Secrets: host.MapSecrets{"weather": "a-key"}}}
	for _, limits := range []string{`{"per_user": 5}`, `{"peruser": 5}`} {
		text := `{"connectors": [{"name": "Weather", "url": "https://api.example.com/v1", "auth": {"type": "none"}, "limits": ` + limits + `}]}`
		set, err := connectors.Read(ctx, "weather", []byte(text), options)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(set.Connectors[0].Definition().Permalink, "has", set.Connectors[0].Definition().Limits.PerUser, "requests a second for each user")
		_ = set.Close(ctx)
	}
	// Output:
	// weather has 5 requests a second for each user
	// weather:1:111: connectors.weather.limits.peruser: is not known here; did you mean "per_user"?
}

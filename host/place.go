package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/internal/urlcheck"
)

// places sets the owners of the connector's places: itself, and the origin of each URL that token requests may go to. So neither a
// connector nor an endpoint that hangs takes what others need. Where a template makes the host, its text stands for the origin.
func (c *Connector) places() {
	for _, f := range c.plan.Fields {
		if f.Kind != abi.KindURL || f.Text == nil {
			continue
		}
		origin := f.Text.Source()
		if scheme, rest, _ := strings.Cut(origin, "://"); urlcheck.FixedHost(origin + "/") {
			end := strings.IndexAny(rest+"/", "/?#")
			origin = strings.ToLower(scheme + "://" + rest[:end])
		}
		c.owners = append(c.owners, origin)
	}
	slices.Sort(c.owners)
	c.owners = append(slices.Compact(c.owners), "connector "+c.config.Name)
}

// place waits for one of the places of the connector's detached calls, and returns a function that frees it. It waits for half of the
// time of an exchange, so that the other half is left for that. A call may wait for the store of keys whatever it waits for first.
func (c *Connector) place(ctx context.Context) (free func(), err error) {
	all, resource := c.host.exchangePlaces, "token endpoints"
	if c.plan.AsksKeys {
		all, resource = c.host.keyPlaces, "the store of keys"
	}
	if free, ok := all.Try(c.owners...); ok {
		return free, nil
	}
	ctx, end := c.startSpan(ctx, Span{Name: SpanWait, Awaits: AwaitPlace})
	if free, err = all.Enter(ctx, c.exchangeTime()/2, c.owners...); err != nil {
		err = hostfn.Passing(fmt.Errorf("%w wait for %s", ErrBusy, resource))
	}
	if end != nil {
		end(endWith(err))
	}
	return free, err
}

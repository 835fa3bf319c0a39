package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// PluginLimits bounds the resources that one plugin may use, below the [Limits] of its host. A field that is 0 leaves the host's
// own limit as it is. Each field means what the field of Limits with the same name means. The tag of each field has its name in
// errors and in a file of connectors.
type PluginLimits struct {
	// Fuel limits the work of a call, in units of about 0.27 ns.
	Fuel int64 `file:"fuel"`
	// CallTime limits the time of a call with its token requests, such as 2s.
	CallTime time.Duration `file:"call_time"`
	// MemoryBytes limits the memory of a call, in bytes.
	MemoryBytes int `file:"memory_bytes"`
	// TokenRequests limits the token requests of a call.
	TokenRequests int `file:"token_requests"`
}

// Names of the fields of PluginLimits.
const (
	limitFuel          = "Fuel"
	limitTime          = "CallTime"
	limitMemory        = "MemoryBytes"
	limitTokenRequests = "TokenRequests"
)

// LimitError is the error of a [Plugin] with Limits: one of them cannot be, or a call was over it. Find it with [errors.As].
type LimitError struct {
	// Plugin is the name of the plugin.
	Plugin string
	// Member is the limit, such as fuel. In a file of connectors it is the member of that name in limits.
	Member string
	// Err is the cause.
	Err error
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("plugin %q: limits.%s: %v", Printable(e.Plugin), e.Member, e.Err)
}

func (e *LimitError) Unwrap() error { return e.Err }

// limitError returns a LimitError for a field of PluginLimits.
func (p *plugin) limitError(field string, err error) error {
	f, _ := reflect.TypeFor[PluginLimits]().FieldByName(field)
	return &LimitError{Plugin: p.info.Name, Member: f.Tag.Get("file"), Err: err}
}

// setLimits sets the limits of the plugin. It returns a [LimitError] if one of its own is above that of the host, or cannot be a
// limit.
func (p *plugin) setLimits(own PluginLimits, host Limits) error {
	p.info.Limits, p.limits = own, host
	if own == (PluginLimits{}) {
		return nil
	}
	owns, all := reflect.ValueOf(own), reflect.ValueOf(&p.limits).Elem()
	for i := range owns.NumField() {
		name, value := owns.Type().Field(i).Name, owns.Field(i)
		limit := all.FieldByName(name)
		switch {
		case value.IsZero():
			continue
		case value.Int() < 0:
			return p.limitError(name, fmt.Errorf("is %v: give a positive one, or leave it out for the host's own", value))
		case value.Int() > limit.Int():
			return p.limitError(name, fmt.Errorf("is %v, and the host's own limit is %v: give at most that, or leave it out", value, limit))
		}
		limit.SetInt(value.Int())
	}
	if err := p.limits.check(); err != nil { // a memory smaller than a page
		return p.limitError(limitMemory, err)
	}
	return nil
}

// overOwn returns a [LimitError] for err, the error of a call that was over a limit, if the plugin has that limit of its own.
// Otherwise it returns err.
func (p *plugin) overOwn(field string, err error) error {
	if field == "" || reflect.ValueOf(p.info.Limits).FieldByName(field).IsZero() {
		return err
	}
	return p.limitError(field, err)
}

// overTime returns err, the error of an exchange or nil. It is a [LimitError] if the plugin's own time was over.
func (c *Connector) overTime(err error) error {
	var e *Error
	own := c.plugin.info.Limits.CallTime
	if own == 0 || own != c.exchangeTime() || !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*LimitError)) || !errors.As(err, &e) {
		return err
	}
	return c.fail(e.Stage, c.plugin.limitError(limitTime, e.Err))
}

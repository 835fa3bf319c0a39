package daemon

import (
	"time"
)

// sessionKeys returns what value returns of the keys of sessions, by issuer. It is empty without such keys.
func (d *daemon) sessionKeys(value func(read time.Time, err error) (v float64, ok bool)) map[string]float64 {
	all := map[string]float64{}
	set := d.current()
	if set == nil || set.sessions == nil || set.Settings.User.JWT == nil {
		return all
	}
	keys := set.sessions.Keys()
	if v, ok := value(keys.Read, keys.Err); ok {
		all[set.Settings.User.JWT.Issuer] = v
	}
	return all
}

// keysAvailable returns 1, or 0 if the keys could not be read the last time.
func (d *daemon) keysAvailable() map[string]float64 {
	return d.sessionKeys(func(_ time.Time, err error) (float64, bool) {
		if err != nil {
			return 0, true
		}
		return 1, true
	})
}

// keysRead returns the time at which the keys were last read, in Unix time. There is none before the first time.
func (d *daemon) keysRead() map[string]float64 {
	return d.sessionKeys(func(read time.Time, _ error) (float64, bool) { return float64(read.Unix()), !read.IsZero() })
}

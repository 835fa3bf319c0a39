package seal

// Key names a key of a store of keys.
type Key struct {
	Name string
	// Version is the version of the key. 0 is the newest one.
	Version int
}

// Key returns the value of a text that is one reference to a key in a store of keys, and nil for any other text. The pointer
// is valid until the next Seal.
func (t *Table) Key(text string) *Value {
	if len(text) != refLength {
		return nil
	}
	if v := t.lookup(text); v != nil && v.Key != nil {
		return v
	}
	return nil
}

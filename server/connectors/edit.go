package connectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A PluginRef is a plugin of a file that comes from a registry.
type PluginRef struct{ Name, Ref string }

// PluginRefs returns the plugins of a file that come from registries, in their order. It looks at nothing else of the file.
func PluginRefs(ctx context.Context, text []byte) ([]PluginRef, error) {
	var p problems
	root := parse(ctx, strings.TrimPrefix(string(text), "\ufeff"), &p)
	if root == nil || root.kind != object {
		return nil, errors.Join(ctx.Err(), errNoFile)
	}
	var all []PluginRef
	if m := root.get("plugins"); m != nil {
		for _, item := range m.value.items {
			name, _ := stringOf(item.get("name"))
			if ref, ok := stringOf(item.get("ref")); ok {
				all = append(all, PluginRef{name, ref})
			}
		}
	}
	return all, nil
}

var errNoFile = errors.New("the file cannot be read: `keywright check` says why")

// SetPluginRef returns the text of a file in which a plugin has a reference. It changes the lines of that plugin and no other, and
// adds them if there are none. It returns an error for a file that it cannot change so, such as one in JSON.
func SetPluginRef(ctx context.Context, text []byte, name, ref string) ([]byte, error) {
	before, err := PluginRefs(ctx, text)
	if err != nil {
		return nil, err
	}
	want := slices.Clone(before)
	var changed string
	if i := slices.IndexFunc(before, func(p PluginRef) bool { return p.Name == name }); i >= 0 {
		want[i].Ref = ref
		changed = replaceRef(ctx, string(text), i, before[i].Ref, ref)
	} else {
		want = append(want, PluginRef{name, ref})
		changed = addRef(ctx, string(text), name, ref)
	}
	after, err := PluginRefs(ctx, []byte(changed))
	if err != nil || !slices.Equal(after, want) {
		return nil, fmt.Errorf("the file is written in a way that only you can change: it needs, in plugins, name: %s and ref: %s", name, ref)
	}
	return []byte(changed), nil
}

// replaceRef replaces the reference of a plugin, if it stands in its line, and there once.
func replaceRef(ctx context.Context, text string, index int, old, ref string) string {
	var p problems
	root := parse(ctx, text, &p)
	items := slices.DeleteFunc(slices.Clone(root.get("plugins").value.items), func(n *node) bool { return n.get("ref") == nil })
	place := items[index].get("ref").value.Place
	lines := strings.SplitAfter(text, "\n")
	if place.Line < 1 || place.Line > len(lines) || strings.Count(lines[place.Line-1], old) != 1 {
		return text
	}
	lines[place.Line-1] = strings.Replace(lines[place.Line-1], old, ref, 1)
	return strings.Join(lines, "")
}

// addRef adds a plugin behind the last one, or at the end of the file.
func addRef(ctx context.Context, text, name, ref string) string {
	var p problems
	root := parse(ctx, text, &p)
	return addItem(text, root.get("plugins"), "plugins", "- name: "+name+"\n  ref: "+ref+"\n")
}

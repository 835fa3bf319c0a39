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
	root, err := rootOf(ctx, text)
	if err != nil {
		return nil, err
	}
	return root.pluginRefs(), nil
}

// rootOf returns the value of a file of which a part is looked at. It returns an error unless the value is an object.
func rootOf(ctx context.Context, text []byte) (*node, error) {
	root := parse(ctx, strings.TrimPrefix(string(text), "\ufeff"), &problems{})
	if root == nil || root.kind != object {
		return nil, errors.Join(ctx.Err(), errors.New("the file cannot be read: `keywright check` says why"))
	}
	return root, nil
}

func (n *node) pluginRefs() (all []PluginRef) {
	if m := n.get("plugins"); m != nil {
		for _, item := range m.value.items {
			name, _ := stringOf(item.get("name"))
			if ref, ok := stringOf(item.get("ref")); ok {
				all = append(all, PluginRef{name, ref})
			}
		}
	}
	return all
}

// SetPluginRef returns the text of a file in which a plugin has a reference. It changes the lines of that plugin and no other, and
// adds them if there are none. It returns an error for a file that it cannot change so, such as one in JSON.
func SetPluginRef(ctx context.Context, text []byte, name, ref string) ([]byte, error) {
	root, err := rootOf(ctx, text)
	if err != nil {
		return nil, err
	}
	want := root.pluginRefs()
	var changed string
	if i := slices.IndexFunc(want, func(p PluginRef) bool { return p.Name == name }); i >= 0 {
		changed = replaceRef(root, string(text), i, want[i].Ref, ref)
		want[i].Ref = ref
	} else {
		want = append(want, PluginRef{name, ref})
		changed = addItem(string(text), root.get("plugins"), "plugins", "- name: "+name+"\n  ref: "+ref+"\n")
	}
	refs, err := PluginRefs(ctx, []byte(changed))
	if err != nil || !slices.Equal(refs, want) {
		return nil, fmt.Errorf("the file is written in a way that only you can change: it needs, in plugins, name: %s and ref: %s", name, ref)
	}
	return []byte(changed), nil
}

// replaceRef replaces the reference of a plugin, if it stands in its line, and there once.
func replaceRef(root *node, text string, index int, old, ref string) string {
	items := slices.DeleteFunc(slices.Clone(root.get("plugins").value.items), func(n *node) bool { return n.get("ref") == nil })
	place := items[index].get("ref").value.Place
	lines := strings.SplitAfter(text, "\n")
	if place.Line < 1 || place.Line > len(lines) || strings.Count(lines[place.Line-1], old) != 1 {
		return text
	}
	lines[place.Line-1] = strings.Replace(lines[place.Line-1], old, ref, 1)
	return strings.Join(lines, "")
}

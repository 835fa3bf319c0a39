package connectors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/problem"
)

// A PluginRef is a plugin of a file that comes from a registry.
type PluginRef struct{ Name, Ref string }

// PluginRefs returns the plugins of a file that come from registries, in their order. It looks at nothing else of the file.
func PluginRefs(ctx context.Context, text []byte) ([]PluginRef, error) {
	root, err := rootOf(ctx, text)
	return root.pluginRefs(), err
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

// AddConnector returns the text of a file with another connector behind the others: the lines of an item of a list, the first of
// which begins with a hyphen. All else stays as it is. It returns an error for a file that it cannot change so, such as one in JSON.
func AddConnector(ctx context.Context, text []byte, item string) ([]byte, error) {
	oldRoot, err := rootOf(ctx, text)
	if err != nil {
		return nil, err
	}
	changed := []byte(addItem(string(text), oldRoot.get("connectors"), "connectors", item))
	if newRoot, err := rootOf(ctx, changed); err != nil || !hasOneMore(oldRoot, newRoot) {
		return nil, errors.Join(ctx.Err(), errors.New("the file is written in a way that only you can change: leave out -c, and put the connector into it"))
	}
	return changed, nil
}

// hasOneMore reports whether a file has one connector more than it had, and is otherwise the same.
func hasOneMore(oldRoot, newRoot *node) bool {
	want, _ := oldRoot.decoded().(map[string]any)
	got, _ := newRoot.decoded().(map[string]any)
	had, _ := want["connectors"].([]any)
	items, _ := got["connectors"].([]any)
	if len(items) != len(had)+1 {
		return false
	}
	want["connectors"] = append(had, items[len(had)])
	return reflect.DeepEqual(want, got)
}

// addItem adds an item to a list with a line for each hyphen, or a list at the end of the file. If it cannot, it returns the text as it is.
func addItem(text string, list *member, name, item string) string {
	if list == nil || len(list.value.items) == 0 && list.value.isNull() {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if list == nil {
			text += name + ":\n"
		}
		return text + indented(item, "  ")
	}
	if len(list.value.items) == 0 {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	first := list.value.items[len(list.value.items)-1].Line
	indent, _, _ := strings.Cut(lines[first-1], "-")
	if strings.TrimSpace(indent) != "" {
		return text
	}
	end := endOfItem(lines, first, len(indent))
	if !strings.HasSuffix(lines[end-1], "\n") {
		lines[end-1] += "\n"
	}
	return strings.Join(slices.Insert(lines, end, indented(item, indent)), "")
}

// endOfItem returns the number of the last line of an item, without the comments and empty lines behind it.
func endOfItem(lines []string, first, indent int) int {
	end := first
	for i := first; i < len(lines); i++ {
		switch rest := strings.TrimLeft(lines[i], " "); {
		case strings.TrimSpace(rest) == "" || strings.HasPrefix(rest, "#"):
			continue
		case len(lines[i])-len(rest) <= indent:
			return end
		}
		end = i + 1
	}
	return end
}

func indented(text, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(indent + line)
	}
	return b.String()
}

// A Layout says which connectors a file has, and where others belong.
type Layout struct {
	// Files has the path of the file of each connector, by permalink: that of the file itself, or of one of its directory.
	Files map[string]string
	// Dir is the path of the directory that the member connectors_dir names, or "".
	Dir string
	// Listed reports whether the file itself has connectors.
	Listed bool
}

// LayoutOf returns the layout of the file name, whose text it gets. It leaves out what is wrong in it, and files of the directory that cannot
// be read.
func LayoutOf(ctx context.Context, name string, text []byte) (Layout, error) {
	root, err := rootOf(ctx, text)
	if err != nil {
		return Layout{}, err
	}
	l := newLoader(name, text, Options{})
	definitions, _ := l.document(ctx, root)
	layout := Layout{Files: map[string]string{}, Dir: l.file.ConnectorsDir, Listed: root.get("connectors") != nil}
	for _, c := range definitions {
		if file, _ := locatePart(l.parts, c.member.Line); layout.Files[c.permalink] == "" {
			layout.Files[c.permalink] = cmp.Or(file, name)
		}
	}
	return layout, nil
}

const maxFiles = 1000

// A part is a file of a directory of connectors. A file and its parts are one text, so that a line says which file it is in.
type part struct {
	name, text string
	// offset is the number of lines before the first one of this part.
	offset int
}

// yamlOf returns a text, or "" if it is JSON, whose marks do not count.
func yamlOf(text string) string {
	if json.Valid([]byte(text)) {
		return ""
	}
	return text + "\n"
}

// directory adds the connectors of the files in the directory of the member connectors_dir.
func (d *definer) directory(ctx context.Context, root *node) {
	m := root.get("connectors_dir")
	if m == nil || d.file.ConnectorsDir == "" {
		return
	}
	where, name := m.value.Place, d.file.ConnectorsDir
	d.set.Files = append(d.set.Files, name)
	parts, err := d.readParts(name)
	if err != nil {
		d.report(where, "connectors_dir", "%v", err)
		return
	}
	text := d.source.text + "\n"
	yaml := yamlOf(d.source.text)
	for i := range parts {
		parts[i].offset = strings.Count(text, "\n")
		text += parts[i].text + "\n"
		yaml += yamlOf(parts[i].text)
	}
	if marks(yaml) > 0 {
		d.report(where, "connectors_dir", "has files that make more than %d marks (brackets, commas, colons, quotes and such), all together: use several gateways", maxMarks)
		return
	}
	d.source.text, d.parts = text, parts
	values, bytes := root.size, root.bytes
	for _, p := range parts {
		d.lineOffset = p.offset
		n := parse(ctx, p.text, &d.problems)
		if d.lineOffset = 0; n == nil {
			continue
		}
		if values, bytes = values+n.size, bytes+n.bytes; values > maxValues || bytes > 2*maxFile {
			d.report(where, "connectors_dir", "has files with more than %d values, or whose aliases repeat more than %d MiB, all together: use several gateways", maxValues, maxFile>>20)
			return
		}
		d.ofPart(n)
	}
	if len(d.file.Connectors) == 0 && len(d.all) == 0 {
		d.report(where, "connectors_dir", "has no connectors: it needs a file NAME.yaml with one at least")
	}
}

// readParts reads the files of a directory whose names end in .yaml, in the order of their names.
func (d *definer) readParts(dir string) (parts []part, err error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, errors.New("cannot be read: " + cause(err))
	}
	size := len(d.source.text)
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, "."): // Kubernetes keeps the files in such a directory, with links to them
			continue
		case slices.Contains([]string{".yml", ".json"}, filepath.Ext(name)):
			return nil, fmt.Errorf("has the file %s, which is not read: call it %s.yaml", name, strings.TrimSuffix(name, filepath.Ext(name)))
		case filepath.Ext(name) != ".yaml":
			continue
		case len(parts) == maxFiles:
			return nil, fmt.Errorf("has more than %d files", maxFiles)
		}
		name := filepath.Join(dir, entry.Name())
		text, err := files.ReadRegular(name, maxFile)
		if err != nil {
			return nil, fmt.Errorf("has the file %s, which cannot be read: %s", entry.Name(), cause(err))
		}
		if size += len(text); size > maxFile {
			return nil, fmt.Errorf("has files that have, with this one, more than %d MiB", maxFile>>20)
		}
		d.set.Files = append(d.set.Files, name)
		parts = append(parts, part{name: name, text: strings.TrimPrefix(string(text), "\ufeff")})
	}
	return parts, nil
}

// ofPart adds the connectors of a part to those of the file.
func (d *definer) ofPart(n *node) {
	if !d.is(n, object, "", "") {
		return
	}
	for _, m := range n.members {
		if m.name != "connectors" {
			d.report(m.key, m.name, "may not stand here: a file of connectors_dir has the member connectors alone")
		}
	}
	m := n.get("connectors")
	if m == nil {
		d.report(n.Place, "", "has no connectors: it needs a list of them, the member connectors")
		return
	}
	d.file.Connectors = append(d.file.Connectors, d.items(m.value, "connectors", "connectors")...)
}

// placeText returns where a place is, in words: the line, with the file if that is another than the one of from.
func (d *definer) placeText(place, from problem.Place) string {
	name, line := locatePart(d.parts, place.Line)
	if fromName, _ := locatePart(d.parts, from.Line); fromName == name {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("line %d of %s", line, cmp.Or(name, "the file that names this directory"))
}

// locatePart returns the name of the part that has a line of the whole text, and the line in it. The name is "" for the file itself.
func locatePart(parts []part, line int) (name string, own int) {
	own = line
	for _, p := range parts {
		if line <= p.offset {
			break
		}
		name, own = p.name, line-p.offset
	}
	return name, own
}

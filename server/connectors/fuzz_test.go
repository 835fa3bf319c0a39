package connectors

import "testing"

// Any file is read or refused at a cost in proportion to its size (threats.md 54).
func FuzzCost(f *testing.F) {
	for _, attack := range attacks {
		f.Add(attack(2000))
	}
	h := newHost(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 64<<10 {
			return
		}
		cost, _ := costOf(t, h, text)
		// The first call of a plugin creates an instance of some 24 MiB.
		if most := uint64(32<<20 + 2<<10*len(text)); cost > most {
			t.Errorf("%d bytes of text allocate %d bytes", len(text), cost)
		}
	})
}

// Any file results in connectors or problems, and not in a panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"connectors:\n- name: a\n  url: https://a.example\n  auth: {type: none}\n",
		"a: &a [*a]\nb: {<<: *a}\n? x\n: |\n  y\n- &b\n",
		`{"connectors": [{"name": "x", "auth": {"config": {"a": [1e3, "\u00e9"]}}}]}`,
		"plugins: [{path: x, sha256: 1, grants: [y]}]\n--- \n%TAG\n...\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		var p problems
		root := parse(t.Context(), text, &p)
		if root == nil {
			if len(p.all) == 0 {
				t.Fatal("neither a document nor a problem")
			}
			return
		}
		d := definer{problems: p, source: source{text: text}, ctx: t.Context(), suggestions: map[*node][]string{}}
		connectors, _ := d.document(root)
		for _, c := range connectors {
			if n, _, _ := c.member.locate("auth.config"); n != nil {
				d.source.character(n, 3)
			}
		}
		for _, wrong := range d.sorted(nil, moreProblems) {
			if wrong.Message == "" || wrong.Line < 0 {
				t.Fatalf("wrong = %+v", wrong)
			}
		}
	})
}

package connectors
import ("testing";"fmt";"github.com/goccy/go-yaml/parser";"github.com/goccy/go-yaml/ast";"time";"strings")
func dump(n ast.Node, d int){
	if n==nil {fmt.Println("nil");return}
	tk:=n.GetToken()
	p := tk.Position
	fmt.Printf("%s%T line=%d col=%d off=%d val=%q origin=%q tt=%v\n",strings.Repeat("  ",d),n,p.Line,p.Column,p.Offset,tk.Value,tk.Origin,tk.Type)
	switch n:=n.(type){
	case *ast.MappingNode: for _,v:=range n.Values {dump(v,d+1)}
	case *ast.MappingValueNode: dump(n.Key,d+1);dump(n.Value,d+1)
	case *ast.SequenceNode: for _,v:=range n.Values{dump(v,d+1)}
	case *ast.AnchorNode: dump(n.Name,d+1);dump(n.Value,d+1)
	case *ast.AliasNode: dump(n.Value,d+1)
	case *ast.MappingKeyNode: dump(n.Value,d+1)
	case *ast.TagNode: dump(n.Value,d+1)
	case *ast.StringNode: fmt.Printf("   -> %q\n", n.Value)
	case *ast.LiteralNode: fmt.Printf("   -> %q\n", n.Value.Value)
	case *ast.IntegerNode: fmt.Printf("   -> %v\n", n.Value)
	}
}
func TestZZ(t *testing.T){
	for _,s:=range []string{
		"{\n\t\"a\": \"x\\/y\\ud83d\\ude00\\u00e9\",\n\t\"b\": [1, 2.5, -3e4, null, true],\n\t\"c\":{\"k\":\"v\"}\n}\n",
		"a: &x {é: 'it''s', z: \"t\\tü\"}\nb: *x\nc:\n  <<: *x\n  d: 010\n  e: 1_000\n  f: 0x10\n  g: +5\n  h: 5.0\n  i: 99999999999999999999\n  '<<': 3\n  k: |\n    line\n    two\n  l: plain text\n    over\n  m: !!str 5\n  n: .inf\n  o: 2026-01-01\n  p: yes\n  1: x\n  ? q\n  : r\n  s:\n  é: ü\n",
		"a: 1\n---\nb: 2\n",
		"a: 1\n...\n",
		"", "# only\n", "a: 1\na: 2\n", "a: [1, 2\n", "a:\n\tb: 1\n", "%YAML 1.2\n---\na: 1\n","\ufeffa: 1\n", "a: \"\\q\"\n", "a: {\"x\":1}\r\nb: 2\r\n",
		"{\"a\":\"{{ get_secret('x') }}\"}", "a: {{ x }}\n", "v: \"a\n  b\"\nw: 5e3\nx: -0\ny: 1.\nz: .5\n", "{\"a\" :1,\n\"b\"\t:\t2}",
	}{
		f,err:=parser.ParseBytes([]byte(s),0,parser.AllowDuplicateMapKey())
		fmt.Printf("==== %q\nerr=%v\n",s,err)
		if err!=nil{continue}
		for _,d:=range f.Docs{ fmt.Println("doc"); dump(d.Body,1)}
	}
	for _, s := range []string{strings.Repeat("[",5000), strings.Repeat("{a: ",5000), strings.Repeat("- ",5000),strings.Repeat("a: 1\n",50000), strings.Repeat("? ",3000),strings.Repeat("a: b\n",0)+"x: "+strings.Repeat("y",1<<20), "x: "+strings.Repeat("[],",100000), strings.Repeat("[",500)+strings.Repeat("]",500)}{
		b:=time.Now()
		_,err:=parser.ParseBytes([]byte(s),0,parser.AllowDuplicateMapKey())
		fmt.Printf("%.20q %d %v\n", s,len(s), time.Since(b))
		_ = err
	}
}

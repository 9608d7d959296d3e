package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"

	"github.com/quorumlock/quorumlock/internal/dev/mutation"
)

// folders are those of the packages that a path leads through.
var folders = []string{"redlock", "internal/engine", "internal/lock", "internal/quorum", "internal/form", "internal/token", "internal/wire", "internal/node"}

// overlay writes sources of the library in which each function calls traced.Enter first, and returns the file for -overlay. about has the
// first sentence of what each function's comment says, and its file.
func overlay(root, dir string) (list string, about map[string]remark, err error) {
	sources, err := mutation.Sources(root, folders...)
	if err != nil {
		return "", nil, err
	}
	about = map[string]remark{}
	for file, source := range sources {
		see := func(f *ast.FuncDecl) { about[path.Dir(file)+" "+nameOf(f)] = remarkOf(f, file) }
		if sources[file], err = instrument(source, see); err != nil {
			return "", nil, err
		}
	}
	list, err = mutation.Overlay(root, dir, sources)
	return list, about, err
}

// instrument returns a source in which each function of more than one line calls traced.Enter first. It shows all to see.
func instrument(source []byte, see func(*ast.FuncDecl)) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	at := func(pos token.Pos) int { return files.Position(pos).Offset }
	text := append(slices.Clone(source), "\nvar _ = traced.Enter\n"...)
	for _, d := range slices.Backward(file.Decls) {
		if f, is := d.(*ast.FuncDecl); is && f.Body != nil {
			see(f)
			if files.Position(f.Body.Rbrace).Line-files.Position(f.Body.Lbrace).Line <= 2 { // it is on the page if it leads to another
				continue
			}
			text = slices.Insert(text, at(f.Body.Lbrace)+1, []byte(" traced.Enter(); ")...)
		}
	}
	const imports = "\n\nimport \"github.com/quorumlock/quorumlock/internal/dev/paths/traced\"\n"
	return slices.Insert(text, at(file.Name.End()), []byte(imports)...), nil
}

// nameOf returns the name of a function, behind that of its receiver's type.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		}
	}
}

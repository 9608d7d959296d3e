package report

import (
	"bytes"
	_ "embed" // the page is a file of this package
	"fmt"
	"maps"
	"path"
	"text/template"
)

//go:embed page.md.tmpl
var page string

// File is a part of the report.
type File struct {
	Name string // with slashes, relative to where the page is
	Data []byte
}

// Render returns the page, benchmarks.md, and the charts that it shows. What it needs and results lack is an error.
func Render(results *Results) ([]File, error) {
	var charted []File
	named := tables()
	maps.Copy(named, waitingTables())
	funcs := template.FuncMap{
		"config": results.Config,
		"table": func(name string) (string, error) {
			t, ok := named[name]
			if !ok {
				return "", fmt.Errorf("report: there is no table %q", name)
			}
			return t.markdown(results)
		},
		"chart": func(alt, name string) (string, error) {
			draw, ok := charts()[name]
			if !ok {
				return "", fmt.Errorf("report: there is no chart %q", name)
			}
			svg, err := draw(results)
			if err != nil {
				return "", err
			}
			file := path.Join("benchmarks", name)
			charted = append(charted, File{file, svg})
			return fmt.Sprintf("![%s](%s)", alt, file), nil
		},
	}
	text, err := template.New("page").Funcs(funcs).Parse(page)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := text.Execute(&b, nil); err != nil {
		return nil, err
	}
	return append([]File{{"benchmarks.md", b.Bytes()}}, charted...), nil
}

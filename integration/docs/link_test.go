package docs_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	module     = "github.com/quorumlock/quorumlock"
	repository = "https://" + module

	withoutTLS = "antirez.com" // the one site with nothing but http
)

func TestLinks_LeadSomewhere(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	count := 0
	for _, d := range docs {
		for _, l := range d.links {
			assert.NoErrorf(t, d.follow(l.url, docs), "%s:%d: %s", d.path, l.line, l.url)
			count++
		}
	}
	require.Greater(t, count, 50)
}

// follow returns an error if a link of the document does not lead anywhere.
func (d *document) follow(link string, docs []*document) error {
	u, err := url.Parse(link)
	if err != nil {
		return err
	}
	packages, ofPackage := strings.CutPrefix(link, "https://pkg.go.dev/")
	own, ofOwn := strings.CutPrefix(u.Scheme+"://"+u.Host+u.Path, repository+"/")
	switch {
	case u.Scheme == "" && u.Host == "" && link != "":
		target := d.path
		if u.Path != "" {
			target = d.beside(u.Path)
		}
		return arrive(target, u.Fragment, docs)
	case u.Scheme != "https" && u.Host != withoutTLS:
		return errors.New("neither relative nor https")
	case u.User != nil || !strings.Contains(strings.Trim(u.Hostname(), "."), ".") || strings.ContainsAny(link, " \t\"<>\\"):
		return errors.New("malformed")
	case ofPackage && strings.HasPrefix(strings.TrimPrefix(packages, "badge/"), module):
		return findPackage(strings.TrimSuffix(strings.TrimPrefix(u.Path[1:], "badge/"), ".svg"), u.Fragment)
	case ofOwn:
		kind, rest, _ := strings.Cut(own, "/")
		if kind == "blob" || kind == "tree" {
			_, file, _ := strings.Cut(rest, "/")
			return arrive(file, u.Fragment, docs)
		}
		if workflow, ok := strings.CutPrefix(own, "actions/workflows/"); ok {
			return arrive(".github/workflows/"+strings.TrimSuffix(workflow, "/badge.svg"), "", docs)
		}
	}
	return nil
}

// arrive returns an error if there is no such file or folder in the repository, or nothing of that id in the file. The id in
// a file that is no document is that of a line (L12).
func arrive(target, id string, docs []*document) error {
	if !filepath.IsLocal(target) {
		return errors.New("outside of the repository")
	}
	content, err := os.ReadFile(filepath.Join(root, target))
	if err != nil {
		if entries, dirErr := os.ReadDir(filepath.Join(root, target)); dirErr != nil || len(entries) == 0 {
			return err
		}
	}
	if id == "" {
		return nil
	}
	if i := slices.IndexFunc(docs, func(d *document) bool { return d.path == path.Clean(target) }); i >= 0 {
		if !slices.Contains(docs[i].anchors, id) {
			return fmt.Errorf("%s has no heading #%s", target, id)
		}
		return nil
	}
	line, err := strconv.Atoi(strings.TrimPrefix(id, "L"))
	if err != nil || line < 1 || line > strings.Count(string(content), "\n") {
		return fmt.Errorf("%s has no line #%s", target, id)
	}
	return nil
}

// findPackage returns an error if the repository has no package of that import path, or if the package does not export what
// the fragment names.
func findPackage(importPath, fragment string) error {
	importPath, _, _ = strings.Cut(importPath, "@")
	dir := strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
	switch {
	case importPath != module && !strings.HasPrefix(importPath, module+"/"):
		return errors.New("another module")
	case importPath == module && fragment == "": // pkg.go.dev shows the folders of a module whose root has no package
		return nil
	}
	p, err := load(dir)
	if err != nil {
		return err
	}
	if fragment != "" && !strings.HasPrefix(fragment, "example-") && !strings.HasPrefix(fragment, "pkg-") && comments(p)[fragment] == nil {
		return fmt.Errorf("the package exports no %s", fragment)
	}
	return nil
}

func TestLinks_ThatLeadNowhereAreFound(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	d := &document{path: "docs/adr/x.md"}
	for link, good := range map[string]bool{
		"../safety.md":                              true,
		"../safety.md#the-assumptions":              true,
		"../safety.md#the-assumption":               false,
		"../safty.md":                               false,
		"../../../outside.md":                       false,
		"../../redlock/doc.go":                      true,
		"../../redlock/doc.go#L3":                   true,
		"../../redlock/doc.go#L3000":                false,
		"../../examples/cron":                       true,
		"../../examples/crond":                      false,
		"":                                          false,
		"https://redis.io/docs/latest/":             true,
		"http://redis.io/docs/latest/":              false,
		"https://redis/docs":                        false,
		"https://user@redis.io":                     false,
		"ftp://redis.io":                            false,
		"https://pkg.go.dev/" + module + "/redlock": true,
		"https://pkg.go.dev/" + module + "/redlock#Lock.Fence": true,
		"https://pkg.go.dev/" + module + "/redlock#Locker.Do":  true,
		"https://pkg.go.dev/" + module + "/redlock#ErrTaken":   true,
		"https://pkg.go.dev/" + module + "/redlock#Lock.Fense": false,
		"https://pkg.go.dev/" + module + "/redlok":             false,
		"https://pkg.go.dev/badge/" + module + "/redlock.svg":  true,
		"https://pkg.go.dev/badge/" + module + "/redlok.svg":   false,
		"https://pkg.go.dev/" + module:                         true,
		repository + "/blob/main/docs/safety.md":               true,
		repository + "/blob/main/docs/safty.md":                false,
		repository + "/issues":                                 true,
		repository + "/actions/workflows/none.yml":             false,
	} {
		if err := d.follow(link, docs); good {
			assert.NoError(t, err, link)
		} else {
			assert.Error(t, err, link)
		}
	}
}

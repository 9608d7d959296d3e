package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
)

// links returns the texts of the links to pages, with a star at the page that is shown, and where they lead.
func links(page string) (texts, to []string) {
	_, nav, _ := strings.Cut(page, `<nav class="pages"`)
	nav, _, _ = strings.Cut(nav, "</nav>")
	for _, a := range regexp.MustCompile(`<a class="button" id="page-(\w+)"( aria-current="page")?[^>]* href="([^"]*)"`).FindAllStringSubmatch(nav, -1) {
		texts, to = append(texts, a[1]+strings.Repeat("*", min(1, len(a[2])))), append(to, a[3])
	}
	return texts, to
}

func TestPager_ShowsAPageAndKeepsTheFilterAndTheOrder(t *testing.T) {
	s := overReal(t, nil)
	do(t, s.servers, "EVAL", `for i = 1000, 1499 do redis.call("SET", "lock:name-" .. i, "token-" .. i, "PX", 600000 + 1000 * (1499 - i)) end`, 0)
	s.see("/", "Page 1 of 10.")
	for number, want := range map[string]struct{ first, last, links string }{
		"":                     {"name-1000", "name-1049", "1* 2 10 next"},
		"1":                    {"name-1000", "name-1049", "1* 2 10 next"},
		"2":                    {"name-1050", "name-1099", "previous 1 2* 3 10 next"},
		"4":                    {"name-1150", "name-1199", "previous 1 2 3 4* 5 10 next"},
		"6":                    {"name-1250", "name-1299", "previous 1 5 6* 7 10 next"},
		"10":                   {"name-1450", "name-1499", "previous 1 9 10*"},
		"11":                   {"name-1450", "name-1499", "previous 1 9 10*"},
		"99999999999999999999": {"name-1450", "name-1499", "previous 1 9 10*"},
	} {
		_, text := s.get("/?page=" + number)
		names := rows(text)
		require.Len(t, names, web.PerPage, number)
		require.Equal(t, want.first, names[0], number)
		require.Equal(t, want.last, names[web.PerPage-1], number)
		texts, _ := links(text)
		require.Equal(t, want.links, strings.Join(texts, " "), number)
		require.Contains(t, text, "500 locks.", "of all pages")
	}
	_, text := s.get("/?q=NAME-1&sort=left&page=2")
	require.Equal(t, "name-1449", rows(text)[0])
	_, to := links(text)
	require.Equal(t, "/?q=NAME-1&amp;sort=left#h-locks", to[0])
	require.Equal(t, "/?page=3&amp;q=NAME-1&amp;sort=left#h-locks", to[3])
	require.Contains(t, text, `aria-sort="ascending"><a href="/?q=NAME-1&amp;sort=left">Time left`, "another order begins with its first page")
	_, text = s.get("/?q=NAME-149&page=7")
	require.Len(t, rows(text), 10)
	require.NotContains(t, text, `<nav class="pages"`)
	require.Contains(t, text, "10 of 500 locks.")
	_, text = s.get("/?q=token-1234")
	require.Len(t, rows(text), 1)
	_, text = s.get("/?q=nothing&page=3")
	require.Contains(t, text, "No lock has “nothing”")
}

func TestPager_NamesANumberThatIsNone(t *testing.T) {
	s := overReal(t, nil)
	for number, named := range map[string]string{
		"0": "0", "-1": "-1", "x": "x", "1.5": "1.5", "%1b": `\x1b`, strings.Repeat("x", 1000): strings.Repeat("x", 20) + "…",
	} {
		code, text := s.get("/?page=" + number)
		require.Equal(t, http.StatusBadRequest, code, number)
		require.Contains(t, text, fmt.Sprintf("the page must be a number from 1 on, not “%s”", named))
	}
}

package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// The danger: another site makes its name lead here (DNS rebinding), and so its script reads the page.
func TestServer_AnswersOnlyToItsOwnNames(t *testing.T) {
	s := overReal(t, func(c *web.Config) { c.Host = "operator.example" })
	for host, code := range map[string]int{
		"":                         http.StatusOK, // the address
		"localhost":                http.StatusOK,
		"LOCALHOST:99":             http.StatusOK,
		"127.0.0.1:1":              http.StatusOK,
		"[::1]:8379":               http.StatusOK,
		"operator.example:8379":    http.StatusOK,
		"evil.example":             http.StatusMisdirectedRequest,
		"evil.example:8379":        http.StatusMisdirectedRequest,
		"localhost.evil.example":   http.StatusMisdirectedRequest,
		"127.0.0.1.evil.example":   http.StatusMisdirectedRequest,
		"x.operator.example":       http.StatusMisdirectedRequest,
		"10.1.2.3":                 http.StatusMisdirectedRequest,
		"[fe80::1]:8379":           http.StatusMisdirectedRequest,
		"localhost@evil.example:1": http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/", "/lock?name=x", "/style.css", "/unlock?name=x"} {
			if code == http.StatusOK && path != "/" {
				continue
			}
			answer, text := s.request(http.MethodGet, path, nil, func(r *http.Request) { r.Host = host })
			require.Equal(t, code, answer.StatusCode, "%s %s", host, path)
			if code != http.StatusOK {
				require.NotContains(t, text, s.servers[0].Addr())
				require.NotContains(t, text, "secret")
			}
		}
	}
}

func TestServer_SendsAStrictPolicyWithEveryAnswer(t *testing.T) {
	s := overReal(t, nil)
	for _, path := range []string{"/", "/lock?name=x", "/style.css", "/live.js", "/icon.svg", "/nothing", "/unlock?name=x", "/lock", "/?sort=x"} {
		answer, text := s.request(http.MethodGet, path, nil, nil)
		h := answer.Header
		for _, directive := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
		} {
			require.Contains(t, strings.Split(h.Get("Content-Security-Policy"), "; "), directive, path)
		}
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe")
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-store", h.Get("Cache-Control"), path)
		require.Equal(t, "same-origin", h.Get("Referrer-Policy"), path)
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"), path)
		require.Empty(t, h.Get("Access-Control-Allow-Origin"), path)
		require.NotContains(t, text, "style=", "the policy would stop it")
		require.NotRegexp(t, `<script[^>]*>[^<]`, text, "the policy would stop it")
	}
}

func TestServer_RefusesWhatItDoesNotKnow(t *testing.T) {
	s := overReal(t, nil)
	for path, code := range map[string]int{
		"/nothing": http.StatusNotFound, "/etc/passwd": http.StatusNotFound, "/page.html": http.StatusNotFound,
		"/lock": http.StatusBadRequest, "/?sort=x": http.StatusBadRequest, "/?q=" + strings.Repeat("x", 300): http.StatusBadRequest,
		"/lock?name=" + strings.Repeat("x", 5000): http.StatusBadRequest,
		"/?page=0": http.StatusBadRequest, "/?page=-1": http.StatusBadRequest, "/?page=x": http.StatusBadRequest,
		"/lock?name=x&page=1.5": http.StatusBadRequest,
	} {
		got, _ := s.get(path)
		require.Equal(t, code, got, path)
	}
	answer, _ := s.request(http.MethodPost, "/", url.Values{}, nil)
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
	answer, _ = s.request(http.MethodDelete, "/unlock", nil, nil)
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
}

// The danger: a name, a token or metadata that a browser takes for markup, or that shows as another.
func TestServer_EscapesWhatServersSay(t *testing.T) {
	const name = "<script>alert(1)</script>\"'`{{.}}"
	const holder = "<img src=x onerror=alert(2)>\x1b[31m\r\n\r\ndata: x\u202egnp.exe\u2028"
	s := overReal(t, func(c *web.Config) { c.AllowUnlock = true })
	s.set("lock:"+name, "ABCDEFGH."+strings.Repeat("r", 28)+":"+holder)
	s.set("lock:<b>foreign</b>", "<i>token</i>")
	escaped := "/lock?name=" + url.QueryEscape(name)
	s.see("/", "alert(2)")
	for _, path := range []string{"/", escaped, "/unlock?name=" + url.QueryEscape(name), "/?q=" + url.QueryEscape("<script>alert(3)</script>")} {
		code, text := s.get(path)
		require.Equal(t, http.StatusOK, code)
		for _, bad := range []string{"<script>alert", "<img src=x", "<b>foreign", "<i>token", "\x1b", "\r", "\u202e", "\u2028"} {
			require.NotContains(t, text, bad, path)
		}
	}
	_, text := s.get("/")
	require.Contains(t, text, "&lt;script&gt;alert(1)&lt;/script&gt;")
	require.Contains(t, text, `\x1b[31m\r\n\r\ndata: x\u202egnp.exe`)
	require.Contains(t, text, `href="`+escaped)
}

func TestServer_NeverShowsAPassword(t *testing.T) {
	const password = "geheim-4711"
	servers := testredis.Real(t, size, "--requirepass", password)
	right, wrong := make([]string, size), make([]string, size)
	for i, server := range servers {
		right[i] = strings.Replace(server.URL(), "://", "://:"+password+"@", 1)
		wrong[i] = strings.Replace(server.URL(), "://", "://:falsch-"+password+"@", 1)
	}
	s := over(t, servers, right, nil)
	require.NotContains(t, s.see("/", "All 3 nodes answer"), password)
	s = over(t, servers, wrong, nil)
	require.NotContains(t, s.see("/", "WRONGPASS"), password)
}

func TestServer_RefusesFormsThatAreNotFromItsPages(t *testing.T) {
	s := overReal(t, func(c *web.Config) { c.AllowUnlock = true })
	s.set("lock:name", "token")
	_, page := s.get("/unlock?name=name")
	good := form(page)
	require.NotEmpty(t, good.Get("secret"))
	_, other := overReal(t, func(c *web.Config) { c.AllowUnlock = true }).get("/unlock?name=name")
	require.NotEqual(t, good.Get("secret"), form(other).Get("secret"))

	without := func(secret ...string) url.Values {
		values := form(page)
		values.Del("secret")
		for _, text := range secret {
			values.Add("secret", text)
		}
		return values
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, test := range map[string]struct {
		form   url.Values
		change func(*http.Request)
		code   int
	}{
		"no secret":             {without(), nil, http.StatusForbidden},
		"empty secret":          {without(""), nil, http.StatusForbidden},
		"wrong secret":          {without("x" + good.Get("secret")[1:]), nil, http.StatusForbidden},
		"beginning of a secret": {without(good.Get("secret")[:10]), nil, http.StatusForbidden},
		"another process's":     {without(form(other).Get("secret")), nil, http.StatusForbidden},
		"secret in the address": {without(), func(r *http.Request) { r.URL.RawQuery = "secret=" + good.Get("secret") }, http.StatusForbidden},
		"from another site":     {good, header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"from a sibling site":   {good, header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"of another origin":     {good, header("Origin", "http://evil.example"), http.StatusForbidden},
		"of no origin":          {good, header("Origin", "null"), http.StatusForbidden},
		"of another host":       {good, func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		"too long":              {url.Values{"name": {strings.Repeat("x", web.MaxBody)}}, nil, http.StatusRequestEntityTooLarge},
		"no base64":             {url.Values{"secret": good["secret"], "name": {"?"}}, nil, http.StatusBadRequest},
		"no name":               {url.Values{"secret": good["secret"]}, nil, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			answer, _ := s.request(http.MethodPost, "/unlock", test.form, test.change)
			require.Equal(t, test.code, answer.StatusCode)
			require.Equal(t, size, s.holds("lock:name"), "it is still there")
		})
	}
	answer, _ := s.request(http.MethodPost, "/examine", without(), nil)
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	answer, _ = s.request(http.MethodPost, "/examine", good, nil)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	answer, _ = s.request(http.MethodPost, "/unlock", good, header("Sec-Fetch-Site", "same-origin"))
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Zero(t, s.holds("lock:name"))
}

func TestServer_ShowsNodesThatAreAway(t *testing.T) {
	s := overReal(t, func(c *web.Config) { c.Timeout = 300 * time.Millisecond })
	s.see("/", "All 3 nodes answer")
	s.servers[0].Freeze()
	page := s.see("/", "2 of 3 nodes answer. 2 are needed.")
	require.Contains(t, page, s.servers[0].Addr())
	require.Contains(t, page, "no answer in time")
	s.servers[0].Thaw()
	s.see("/", "All 3 nodes answer")
	s.servers[0].Stop()
	s.servers[1].Stop()
	s.see("/", "Only 1 of 3 nodes answer, and 2 are needed")
	s.see("/", "connection refused")
}

// The danger: a doctor that has found nothing, before nodes went away, beside these nodes.
func TestServer_SaysWhatTheDoctorCannotExamine(t *testing.T) {
	s := overReal(t, nil)
	s.see("/", "no findings")
	for _, server := range s.servers[:2] {
		server.Stop()
	}
	_, doctor, found := strings.Cut(s.see("/", "Only 1 of 3 nodes answer"), `id="doctor"`)
	require.True(t, found)
	require.NotContains(t, doctor, "no findings")
	require.Contains(t, doctor, "Cannot be examined now, as they do not answer: ")
	require.Contains(t, doctor, "<code>"+s.servers[0].Addr()+"</code>, <code>"+s.servers[1].Addr()+"</code>")
	require.NotContains(t, doctor, s.servers[2].Addr())
	s.servers[1].Start()
	s.see("/", "Cannot be examined now, as it does not answer: <code>"+s.servers[0].Addr()+"</code>")
	s.servers[0].Start()
	page := s.see("/", "Since then: <code>"+s.servers[0].Addr()+"</code> was away; <code>")
	require.NotContains(t, page, "Cannot be examined")
	require.Contains(t, page, "nothing was found then", "they were away")
	answer, _ := s.request(http.MethodPost, "/examine", form(page), nil)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.NotContains(t, s.see("/", "checks at "), "Cannot be examined")
	require.NotContains(t, s.see("/", ": no findings."), "Since then")
}

func TestServer_CountsNoKeysOfNodesThatHaveNotListedThem(t *testing.T) {
	listed := make(chan struct{})
	s := overReal(t, listing(listed))
	s.set("lock:name", "token")
	require.NotContains(t, s.see("/", "All 3 nodes answer"), "0 keys")
	close(listed)
	s.see("/", "1 key<")
	s.servers[0].Stop()
	require.NotContains(t, s.see("/", "</span> 2 of 3</td>"), "0 keys", "the server that is gone has listed nothing")
}

// The danger: a server that closes idle connections, or has restarted in an instant, looks as if it were away.
func TestServer_ConnectsAgainAtOnceIfAConnectionWasClosed(t *testing.T) {
	s := overReal(t, nil)
	s.see("/", "All 3 nodes answer")
	do(t, s.servers, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	page := s.see("/", "last 60 tries")
	require.Equal(t, size, strings.Count(page, ", 0 without an answer."), page)
}

// The danger: a page that says that all nodes answer, of which one is a replica that grants no lock.
func TestPage_AReplicaHasNotAnswered(t *testing.T) {
	s := overReal(t, nil)
	do(t, s.servers[0:1], "SET", "lock:name", "token", "PX", 600_000)
	s.see("/", "1 of 3 <b>held by nobody</b>")
	do(t, s.servers[1:2], "REPLICAOF", "127.0.0.1", "1")
	page := s.see("/", "2 of 3 nodes answer")
	require.Contains(t, page, "the server is a replica: nodes must be independent masters")
	page = s.see("/lock?name=name", "unknown on 1 of 3 nodes")
	require.Contains(t, page, "not known: READONLY role:slave")
}

func TestPage_ASentinelIsNamed(t *testing.T) {
	sentinel := testredis.Sentinel(t)
	over(t, []*testredis.Process{sentinel}, testredis.URLs([]*testredis.Process{sentinel}), nil).see("/", "the server is a Sentinel")
}

// The danger: a spike of 2 ms that looks like one of 200 ms at the node beside it.
func TestServer_DrawsTheLatenciesOfAllNodesToOneScale(t *testing.T) {
	s := overReal(t, nil)
	s.see("/", "All 3 nodes answer")
	do(t, s.servers[0:1], "CLIENT", "PAUSE", 300)
	page := s.see("/", "last 60 tries")
	scale := regexp.MustCompile(`Each line is .* from 0 to ([\d.]+) ms\.`).FindStringSubmatch(page)
	require.NotNil(t, scale, page)
	full, err := strconv.ParseFloat(scale[1], 64)
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?s)<svg class="spark".*?from [\d.]+ ms to ([\d.]+) ms.*?</svg>`).FindAllStringSubmatch(page, -1)
	require.Len(t, lines, size)
	for _, line := range lines {
		peak, err := strconv.ParseFloat(line[1], 64)
		require.NoError(t, err)
		top := 100.0
		for _, y := range regexp.MustCompile(`\d,([\d.]+)`).FindAllStringSubmatch(line[0], -1) {
			at, err := strconv.ParseFloat(y[1], 64)
			require.NoError(t, err)
			top = min(top, at)
		}
		require.InDelta(t, 1+26*(1-peak/full), top, 0.2, "%s of %s", line[1], scale[1])
	}
}

package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
)

// stream is an open page.
type stream struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Scanner
	close  func()
}

func (s *site) stream(query string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events?"+query, nil)
	require.NoError(s.t, err)
	answer, err := s.client.Do(r)
	require.NoError(s.t, err)
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	st := &stream{s.t, answer, lines, func() { cancel(); answer.Body.Close() }}
	s.t.Cleanup(st.close)
	return st
}

// next returns the fragments of the next event.
func (s *stream) next() (fragments map[string]string) {
	s.t.Helper()
	require.True(s.t, s.lines.Scan(), "the stream has ended: %v", s.lines.Err())
	data, found := strings.CutPrefix(s.lines.Text(), "data: ")
	require.True(s.t, found, s.lines.Text())
	require.NoError(s.t, json.Unmarshal([]byte(data), &fragments))
	require.True(s.t, s.lines.Scan())
	require.Empty(s.t, s.lines.Text(), "an event is one line")
	return fragments
}

func TestEvents_SendWhatHasChangedAndOnlyThat(t *testing.T) {
	s := overReal(t, nil)
	st := s.stream("")
	require.Equal(t, "text/event-stream", st.answer.Header.Get("Content-Type"))
	first := st.next()
	require.Contains(t, s.see("/", "data-process"), `data-process="`+first["process"]+`"`)
	for _, fragment := range []string{"asof", "summary", "nodes", "locks", "changes", "doctor"} {
		require.Contains(t, first, fragment)
	}
	require.Contains(t, first["locks"], "No locks are held")
	s.set("lock:name\r\n\r\ndata: {}\r\n\r\n", "token")
	for locks := ""; locks == ""; {
		fragments := st.next()
		require.NotContains(t, fragments, "process")
		require.NotContains(t, fragments, "summary", "it has not changed")
		locks = fragments["locks"]
	}
	s.servers[0].Stop()
	for summary := ""; summary == ""; summary = st.next()["summary"] {
	}
}

func TestEvents_AreAboutTheLockThatIsNamed(t *testing.T) {
	s := overReal(t, nil)
	s.set("lock:name", "token")
	s.set("lock:other", "other-token")
	first := s.stream("name=name").next()
	require.Contains(t, first["lock"], "token")
	require.NotContains(t, first["lock"], "other-token")
	require.NotContains(t, first, "locks")
}

func TestEvents_AreForABoundedNumberOfPages(t *testing.T) {
	s := overReal(t, nil)
	streams := make([]*stream, web.MaxStreams)
	for i := range streams {
		streams[i] = s.stream("")
		streams[i].next()
	}
	refused := s.stream("")
	require.Equal(t, http.StatusServiceUnavailable, refused.answer.StatusCode)
	streams[0].close()
	require.Eventually(t, func() bool {
		st := s.stream("")
		defer st.close()
		return st.answer.StatusCode == http.StatusOK
	}, bound, 20*time.Millisecond, "the place of one that has left is free")
}

func TestEvents_AreNotForOtherSites(t *testing.T) {
	s := overReal(t, nil)
	for _, from := range []string{"cross-site", "same-site", "none"} {
		answer, _ := s.request(http.MethodGet, "/events", nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", from) })
		require.Equal(t, http.StatusForbidden, answer.StatusCode, from)
	}
}

func TestServe_EndsWhilePagesAreOpen(t *testing.T) {
	s := overReal(t, nil)
	st := s.stream("")
	st.next()
	s.stop()
	for st.lines.Scan() {
	}
}

// The danger: who opens streams and leaves them so keeps all others from seeing a page that is up to date.
func TestEvents_EndNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, nil)
		began := time.Now()
		for _, read := range []bool{true, false} {
			for range web.MaxStreams {
				st := l.stream("")
				require.Equal(t, http.StatusOK, st.answer.StatusCode)
				if read {
					go func() {
						for st.lines.Scan() {
						}
					}()
				}
			}
			<-time.After(20 * time.Minute)
		}
		st := l.stream("")
		require.Equal(t, http.StatusOK, st.answer.StatusCode)
		require.Less(t, time.Since(began), time.Hour, "of the clock of the bubble")
		st.close()
	})
}

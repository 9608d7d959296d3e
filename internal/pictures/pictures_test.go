package pictures_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/pictures"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestPicture_ShowsWhatHasHappenedOnServers(t *testing.T) {
	if _, err := testredis.Program(); errors.Is(err, testredis.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	for _, p := range pictures.All() {
		t.Run(p.File, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			timeline, err := p.Timeline(ctx)
			require.NoError(t, err)
			svg, err := timeline.SVG()
			require.NoError(t, err)
			requireReadable(t, svg)
			texts := parse(t, svg).texts()
			for _, panel := range timeline.Panels {
				for _, lane := range panel.Lanes {
					require.Contains(t, texts, lane.Name)
				}
			}
		})
	}
}

// The pictures in the repository are those of the program, and each is in a document.
func TestPicture_IsInADocument(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	var written []string
	for _, p := range pictures.All() {
		written = append(written, p.File)
		svg, err := os.ReadFile(filepath.Join(docs, "pictures", p.File))
		require.NoError(t, err)
		requireReadable(t, svg)
	}
	slices.Sort(written)
	entries, err := os.ReadDir(filepath.Join(docs, "pictures"))
	require.NoError(t, err)
	var there, used []string
	for _, e := range entries {
		there = append(there, e.Name())
	}
	require.Equal(t, written, there)

	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	require.NoError(t, err)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, image := range regexp.MustCompile(`!\[([^\]]+)\]\(pictures/([^)]+)\)`).FindAllSubmatch(text, -1) {
			used = append(used, string(image[2]))
		}
	}
	slices.Sort(used)
	require.Equal(t, written, slices.Compact(used))
}

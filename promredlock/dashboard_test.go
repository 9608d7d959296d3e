package promredlock_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dashboard is what the tests look at in dashboard.json.
type dashboard struct {
	Title      string
	UID        string
	Templating struct {
		List []struct{ Name, Type, Query any }
	}
	Panels []panel
}

type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource struct{ Type, UID string }
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		Expr, RefID string
		Datasource  struct{ Type, UID string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// filled is an expression with values for the variables of Grafana: all jobs and instances, and an hour divided by quickly as the
// range that is shown.
func filled(expr, window string) string {
	return strings.NewReplacer("$__rate_interval", window, "$__range", "120s", "$job", ".*", "$instance", ".*").Replace(expr)
}

func TestDashboard_CanBeImported(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	require.NotEmpty(t, d.Title)
	require.NotEmpty(t, d.UID)
	variables := map[any]bool{}
	for _, variable := range d.Templating.List {
		variables[variable.Name] = true
	}
	require.Equal(t, map[any]bool{"datasource": true, "job": true, "instance": true}, variables)

	ids, area := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "%s: its id is another's", p.Title)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				place := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, area[place], "%s lies on another panel", p.Title)
				area[place] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		require.Equal(t, "${datasource}", p.Datasource.UID)
		for _, target := range p.Targets {
			require.Equal(t, "${datasource}", target.Datasource.UID)
			require.NotContains(t, filled(target.Expr, "5s"), "$", "a variable that the dashboard does not have")
			require.Equal(t, strings.Count(target.Expr, "{"), strings.Count(target.Expr, `job=~"$job"`), "each metric is of the jobs that are chosen, except those of the tool: %s", target.Expr)
		}
	}
}

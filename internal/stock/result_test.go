package stock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/stock"
)

// ended returns how a sale of three items with one pause should have ended.
func ended(checked bool) *stock.Result {
	r := &stock.Result{
		Plan:   stock.Plan{Items: 3, Pauses: 1, Checked: checked},
		Sales:  []stock.Sale{{Token: 11, Buyer: 5, Left: 2}, {Token: 13, Buyer: 4, Left: 1}, {Token: 14, Buyer: 2, Left: 0}},
		Pauses: []stock.Pause{{Buyer: 1, Token: 12, Refused: checked}},
	}
	if !checked {
		r.Sales = append(r.Sales, stock.Sale{Token: 12, Buyer: 1, Left: 1})
	}
	return r
}

func TestAResultSaysWhatWentOtherwise(t *testing.T) {
	require.NoError(t, ended(false).Err())
	require.NoError(t, ended(true).Err())
	require.Equal(t, 1, ended(false).Oversold())
	require.Zero(t, ended(true).Oversold())
	for want, test := range map[string]struct {
		checked bool
		change  func(r *stock.Result)
	}{
		"0 holders were paused: must be 1":                  {true, func(r *stock.Result) { r.Pauses = nil }},
		"late write of buyer 1: refused is false":           {true, func(r *stock.Result) { r.Pauses[0].Refused = false }},
		"late write of buyer 1: refused is true":            {false, func(r *stock.Result) { r.Pauses[0].Refused = true }},
		"3 of 3 items were sold without a check":            {false, func(r *stock.Result) { r.Sales = r.Sales[:3] }},
		"2 of 3 items were sold with the check, and 0":      {true, func(r *stock.Result) { r.Sales = r.Sales[1:] }},
		"3 of 3 items were sold with the check, and 1":      {true, func(r *stock.Result) { r.Left = 1 }},
		"sale 2 is \"token 13 buyer 4 left 2\": must leave": {true, func(r *stock.Result) { r.Sales[1].Left = 2 }},
		"after \"token 13 buyer 4 left 1\": the token must": {true, func(r *stock.Result) { r.Sales[2].Token = 13 }},
	} {
		t.Run(want, func(t *testing.T) {
			r := ended(test.checked)
			test.change(r)
			require.ErrorContains(t, r.Err(), want)
		})
	}
}

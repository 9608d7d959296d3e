package outcome

// Bounds of the buckets of histograms, the same in both modules, so that one dashboard fits: seconds of most durations, of locks
// that are held, and of what is left of them; parts of the validity; rounds. They must not be changed.
var (
	Durations = []float64{
		50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60,
	}
	Holds      = []float64{1e-3, 5e-3, 25e-3, 100e-3, 500e-3, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}
	Validities = []float64{10e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 20, 30, 60, 300, 3600}
	Margins    = []float64{0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}
	Rounds     = []float64{1, 2, 3, 5, 10, 20, 50, 100}
)

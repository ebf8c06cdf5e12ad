// Package trend fits a line to measurements to distinguish growth from fluctuation. It is pure.
package trend

// Sample is a value at a time. Seconds is the time in seconds.
type Sample struct {
	Seconds, Value float64
}

// Growth returns the growth of a value over the time of the samples, as a share of its mean: 0.1 is
// 10 %. It fits a line by least squares. It returns 0 if there are fewer than three samples, all
// samples have the same time, or the mean is not positive. Its cost is O(samples).
func Growth(samples []Sample) float64 {
	if len(samples) < 3 {
		return 0
	}
	n := float64(len(samples))
	var meanX, meanY float64
	for _, s := range samples {
		meanX += s.Seconds / n
		meanY += s.Value / n
	}
	var xy, xx float64
	for _, s := range samples {
		xy += (s.Seconds - meanX) * (s.Value - meanY)
		xx += (s.Seconds - meanX) * (s.Seconds - meanX)
	}
	if xx == 0 || meanY <= 0 {
		return 0
	}
	return xy / xx * (samples[len(samples)-1].Seconds - samples[0].Seconds) / meanY
}

// SecondHalf returns the samples of the second half of the time, when caches are full. The samples
// must be sorted by time.
func SecondHalf(samples []Sample) []Sample {
	if len(samples) == 0 {
		return nil
	}
	middle := (samples[0].Seconds + samples[len(samples)-1].Seconds) / 2
	for i, s := range samples {
		if s.Seconds >= middle {
			return samples[i:]
		}
	}
	return nil
}

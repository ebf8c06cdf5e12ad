// Package trend fits a line to measurements, to tell what grows from what goes up and down. It
// is pure.
package trend

// Sample is a value at a time, in seconds.
type Sample struct {
	Seconds, Value float64
}

// Growth returns by how much of its mean a value grows over the time of the samples, by the
// line of least squares: 0.1 is a tenth. 0 if there are fewer than three samples, all at one
// time, or the mean is not above 0. Its cost is linear.
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

// SecondHalf returns the samples of the second half of the time, in which caches are full. The
// samples are in the order of time.
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

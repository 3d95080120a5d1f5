//! Recordings, histograms, statistics and verdicts.

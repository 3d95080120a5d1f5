//! From a recording to one HTML file.

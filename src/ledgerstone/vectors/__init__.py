"""Engines that find the nearest vectors: each holds spaces in memory, none decides a score.

An engine finds candidates in its own way and says how far off its scores can be; ranking.py
scores the candidates again with rules/vectors.py. So an answer does not depend on the engine, only
how soon it comes.
"""

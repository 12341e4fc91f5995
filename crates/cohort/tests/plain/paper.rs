//! The paper's algorithms as plainly as they can be written: every matrix full, every estimate
//! solved afresh from the whole history, no state carried along. Slow, and easy to check against
//! the pseudo-code. The library must choose the same arms.

pub type Matrix = Vec<Vec<f64>>;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The inverse and ln det by Gauss–Jordan with pivoting.
pub fn invert(matrix: &Matrix) -> (Matrix, f64) {
    let d = matrix.len();
    let mut left = matrix.clone();
    let mut right: Matrix = (0..d).map(|i| (0..d).map(|j| f64::from(i == j)).collect()).collect();
    let mut log_det = 0.0;
    for column in 0..d {
        let pivot = (column..d)
            .max_by(|&a, &b| left[a][column].abs().total_cmp(&left[b][column].abs()))
            .unwrap();
        left.swap(column, pivot);
        right.swap(column, pivot);
        log_det += left[column][column].abs().ln();
        let scale = left[column][column];
        for j in 0..d {
            left[column][j] /= scale;
            right[column][j] /= scale;
        }
        for row in (0..d).filter(|&row| row != column) {
            let factor = left[row][column];
            for j in 0..d {
                left[row][j] -= factor * left[column][j];
                right[row][j] -= factor * right[column][j];
            }
        }
    }
    (right, log_det)
}

/// What OFUL is told.
#[derive(Clone, Copy)]
pub struct OfulParams {
    pub delta: f64,
    pub lambda: f64,
    pub norm_bound: f64,
    pub sigma: f64,
    pub exploration: f64,
    /// ρ_min and the rounds that the run lasts, for the ball form.
    pub ball: Option<(f64, usize)>,
}

impl OfulParams {
    /// The same for a run of so many rounds.
    pub fn lasting(self, rounds: usize) -> OfulParams {
        OfulParams { ball: self.ball.map(|(rho_min, _)| (rho_min, rounds)), ..self }
    }
}

/// OFUL as its whole history.
#[derive(Clone, Default)]
pub struct Oful {
    history: Vec<(Vec<f64>, f64)>,
}

impl Oful {
    pub fn precision(&self, dim: usize, lambda: f64) -> Matrix {
        let mut v = vec![vec![0.0; dim]; dim];
        for i in 0..dim {
            v[i][i] = lambda;
        }
        for (x, _) in &self.history {
            for i in 0..dim {
                for j in 0..dim {
                    v[i][j] += x[i] * x[j];
                }
            }
        }
        v
    }

    /// V⁻¹, θ̂ and the radius β.
    pub fn solve(&self, dim: usize, told: &OfulParams) -> (Matrix, Vec<f64>, f64) {
        let (inverse, log_det) = invert(&self.precision(dim, told.lambda));
        let mut b = vec![0.0; dim];
        for (x, y) in &self.history {
            for i in 0..dim {
                b[i] += x[i] * y;
            }
        }
        let theta = inverse.iter().map(|row| dot(row, &b)).collect();
        let log_ratio = log_det - dim as f64 * told.lambda.ln();
        let mut radius = told.exploration
            * (told.sigma * (2.0 * (1.0 / told.delta).ln() + log_ratio).sqrt()
                + told.lambda.sqrt() * told.norm_bound);
        if let Some((rho_min, rounds)) = told.ball
            && self.history.len() as f64
                >= (16.0 / (rho_min * rho_min) + 8.0 / (3.0 * rho_min))
                    * ((2 * dim * rounds) as f64 / told.delta).ln()
        {
            radius /= (1.0 + rho_min * self.history.len() as f64 / 2.0).sqrt();
        }
        (inverse, theta, radius)
    }

    pub fn choose(&self, contexts: &[Vec<f64>], told: &OfulParams, shift: &[f64]) -> usize {
        let (inverse, theta, radius) = self.solve(contexts[0].len(), told);
        let score = |x: &Vec<f64>| {
            let length = match told.ball {
                Some(_) => dot(x, x),
                None => {
                    let product: Vec<f64> = inverse.iter().map(|row| dot(row, x)).collect();
                    dot(x, &product)
                }
            };
            dot(x, &theta) + dot(x, shift) + radius * length.sqrt()
        };
        (0..contexts.len())
            .rev()
            .max_by(|&a, &b| score(&contexts[a]).total_cmp(&score(&contexts[b])))
            .unwrap()
    }

    pub fn learn(&mut self, x: &[f64], y: f64) {
        self.history.push((x.to_vec(), y));
    }

    /// max ‖θ‖ over the confidence set, by climbing to the farthest point in the direction of the
    /// present one, from many starts.
    pub fn largest_norm(&self, dim: usize, told: &OfulParams) -> f64 {
        let centre = self.solve(dim, told).1;
        self.largest_norm_around(&centre, told)
    }

    pub fn largest_norm_around(&self, centre: &[f64], told: &OfulParams) -> f64 {
        let dim = centre.len();
        let (inverse, _, radius) = self.solve(dim, told);
        if told.ball.is_some() {
            return dot(centre, centre).sqrt() + radius;
        }
        let mut longest = 0.0;
        for start in 0..2 * dim {
            let mut theta = vec![0.0; dim];
            theta[start / 2] = if start % 2 == 0 { 1.0 } else { -1.0 };
            for _ in 0..3000 {
                let step: Vec<f64> = inverse.iter().map(|row| dot(row, &theta)).collect();
                let scale = radius / dot(&theta, &step).sqrt();
                theta = (0..dim).map(|i| centre[i] + scale * step[i]).collect();
            }
            longest = f64::max(longest, dot(&theta, &theta).sqrt());
        }
        longest
    }
}

/// Components of the γ-graph by repeated relabelling; small ones put together.
pub fn maximal_cluster(points: &[Vec<f64>], gamma: f64, min_share: f64) -> Vec<usize> {
    let n = points.len();
    let mut label: Vec<usize> = (0..n).collect();
    loop {
        let before = label.clone();
        for i in 0..n {
            for j in 0..n {
                let apart: f64 =
                    points[i].iter().zip(&points[j]).map(|(a, b)| (a - b).powi(2)).sum();
                if apart.sqrt() <= gamma {
                    label[i] = label[i].min(label[j]);
                }
            }
        }
        if label == before {
            break;
        }
    }
    let size = |l: usize| label.iter().filter(|&&m| m == l).count();
    let small: Vec<bool> =
        label.iter().map(|&l| (size(l) as f64) < min_share * n as f64 - 1e-9).collect();
    let first_small = small.iter().position(|&s| s);
    (0..n).map(|i| if small[i] { first_small.unwrap() } else { label[i] }).collect()
}

/// The center of a plain policy: all arms, then all rewards.
pub trait Plain {
    fn choose(&mut self, contexts: &[Vec<f64>]) -> Vec<usize>;
    fn learn(&mut self, contexts: &[Vec<f64>], arms: &[usize], rewards: &[f64]);
}

pub struct LinUcbInd {
    pub users: Vec<Oful>,
    pub told: OfulParams,
}

impl Plain for LinUcbInd {
    fn choose(&mut self, contexts: &[Vec<f64>]) -> Vec<usize> {
        let zero = vec![0.0; contexts[0].len()];
        self.users.iter().map(|user| user.choose(contexts, &self.told, &zero)).collect()
    }

    fn learn(&mut self, contexts: &[Vec<f64>], arms: &[usize], rewards: &[f64]) {
        for i in 0..self.users.len() {
            self.users[i].learn(&contexts[arms[i]], rewards[i]);
        }
    }
}

/// One OFUL per cluster on averaged rewards; `labels` name the clusters by any of their members.
pub struct PerCluster {
    pub labels: Vec<usize>,
    pub ofuls: Vec<Oful>,
    pub told: OfulParams,
}

impl PerCluster {
    pub fn new(labels: Vec<usize>, told: OfulParams) -> Self {
        Self { ofuls: vec![Oful::default(); labels.len()], labels, told }
    }

    fn members(&self, cluster: usize) -> Vec<usize> {
        (0..self.labels.len()).filter(|&i| self.labels[i] == cluster).collect()
    }
}

impl Plain for PerCluster {
    fn choose(&mut self, contexts: &[Vec<f64>]) -> Vec<usize> {
        let zero = vec![0.0; contexts[0].len()];
        let mut arms = vec![0; self.labels.len()];
        for cluster in 0..self.ofuls.len() {
            let members = self.members(cluster);
            if members.is_empty() {
                continue;
            }
            let sigma = self.told.sigma / (members.len() as f64).sqrt();
            let arm =
                self.ofuls[cluster].choose(contexts, &OfulParams { sigma, ..self.told }, &zero);
            for member in members {
                arms[member] = arm;
            }
        }
        arms
    }

    fn learn(&mut self, contexts: &[Vec<f64>], arms: &[usize], rewards: &[f64]) {
        for cluster in 0..self.ofuls.len() {
            let members = self.members(cluster);
            if let Some(&first) = members.first() {
                let sum: f64 = members.iter().map(|&member| rewards[member]).sum();
                self.ofuls[cluster].learn(&contexts[arms[first]], sum / members.len() as f64);
            }
        }
    }
}

/// Algorithm 2.
pub struct Cmlb {
    pub explore: usize,
    pub gamma: f64,
    pub min_share: f64,
    pub round: usize,
    pub individual: LinUcbInd,
    pub collaborative: Option<PerCluster>,
}

impl Cmlb {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        n: usize,
        d: usize,
        t: usize,
        alpha: f64,
        c: f64,
        min_share: f64,
        told: OfulParams,
    ) -> Self {
        let nt = (n * t) as f64;
        Self {
            explore: (c * c * d as f64 * nt.powf(2.0 * alpha) * (1.0 / told.delta).ln()).ceil()
                as usize,
            gamma: 3.0 / nt.powf(alpha),
            min_share,
            round: 0,
            individual: LinUcbInd { users: vec![Oful::default(); n], told },
            collaborative: None,
        }
    }
}

impl Plain for Cmlb {
    fn choose(&mut self, contexts: &[Vec<f64>]) -> Vec<usize> {
        if self.round == self.explore {
            let told = self.individual.told;
            let estimates: Vec<Vec<f64>> = (self.individual.users.iter())
                .map(|user| user.solve(contexts[0].len(), &told).1)
                .collect();
            let labels = maximal_cluster(&estimates, self.gamma, self.min_share);
            self.collaborative = Some(PerCluster::new(labels, told));
        }
        match &mut self.collaborative {
            Some(clusters) => clusters.choose(contexts),
            None => self.individual.choose(contexts),
        }
    }

    fn learn(&mut self, contexts: &[Vec<f64>], arms: &[usize], rewards: &[f64]) {
        self.round += 1;
        match &mut self.collaborative {
            Some(clusters) => clusters.learn(contexts, arms, rewards),
            None => self.individual.learn(contexts, arms, rewards),
        }
    }
}

/// Algorithm 1.
pub struct Sclb {
    pub n: usize,
    pub d: usize,
    pub alpha: f64,
    pub c: f64,
    pub told: OfulParams,
    pub phase: i32,
    pub left: usize,
    pub cmlb: Option<Cmlb>,
    /// How often it has clustered.
    pub clusterings: usize,
}

impl Plain for Sclb {
    fn choose(&mut self, contexts: &[Vec<f64>]) -> Vec<usize> {
        if self.left == 0 {
            self.phase += 1;
            let rounds = 1usize << self.phase;
            let told =
                OfulParams { delta: self.told.delta / rounds as f64, ..self.told }.lasting(rounds);
            let share = f64::from(self.phase).powi(-2);
            self.left = rounds;
            self.cmlb = Some(Cmlb::new(self.n, self.d, rounds, self.alpha, self.c, share, told));
        }
        let cmlb = self.cmlb.as_mut().unwrap();
        let before = cmlb.collaborative.is_some();
        let arms = cmlb.choose(contexts);
        self.clusterings += usize::from(!before && cmlb.collaborative.is_some());
        arms
    }

    fn learn(&mut self, contexts: &[Vec<f64>], arms: &[usize], rewards: &[f64]) {
        self.left -= 1;
        self.cmlb.as_mut().unwrap().learn(contexts, arms, rewards);
    }
}

/// ALB-Norm for one user.
pub struct AlbNorm {
    pub epoch_length: usize,
    pub epoch_left: usize,
    pub left: usize,
    pub told: OfulParams,
    pub oful: Oful,
}

impl AlbNorm {
    pub fn new(horizon: usize, told: OfulParams) -> Self {
        let first = (horizon as f64).sqrt().ceil() as usize;
        let told = told.lasting(first);
        Self { epoch_length: first, epoch_left: first, left: horizon, told, oful: Oful::default() }
    }

    fn choose(&mut self, contexts: &[Vec<f64>], shift: &[f64]) -> usize {
        if self.epoch_left == 0 {
            let bound = self.oful.largest_norm(contexts[0].len(), &self.told);
            self.told.norm_bound = bound;
            self.told.delta /= 2.0;
            self.oful = Oful::default();
            self.epoch_length *= 2;
            self.epoch_left = self.epoch_length;
            self.told = self.told.lasting(self.epoch_length.min(self.left));
        }
        self.oful.choose(contexts, &self.told, shift)
    }

    fn learn(&mut self, x: &[f64], y: f64) {
        self.epoch_left -= 1;
        self.left -= 1;
        self.oful.learn(x, y);
    }
}

/// `alb-norm`: one per user, no shift.
pub struct AlbNormEach(pub Vec<AlbNorm>);

impl Plain for AlbNormEach {
    fn choose(&mut self, contexts: &[Vec<f64>]) -> Vec<usize> {
        let zero = vec![0.0; contexts[0].len()];
        self.0.iter_mut().map(|user| user.choose(contexts, &zero)).collect()
    }

    fn learn(&mut self, contexts: &[Vec<f64>], arms: &[usize], rewards: &[f64]) {
        for i in 0..self.0.len() {
            self.0[i].learn(&contexts[arms[i]], rewards[i]);
        }
    }
}

/// Algorithm 4, with the shift added back or not.
pub struct Pmlb {
    pub common_left: usize,
    pub common: Oful,
    pub told: OfulParams,
    pub users: Vec<AlbNorm>,
    pub compensated: bool,
}

impl Pmlb {
    pub fn new(n: usize, t: usize, told: OfulParams, compensated: bool) -> Self {
        let common = (t as f64).sqrt().floor() as usize;
        let users = (0..n).map(|_| AlbNorm::new(t - common, told)).collect();
        Self { common_left: common, common: Oful::default(), told, users, compensated }
    }

    fn common_told(&self) -> OfulParams {
        OfulParams { sigma: self.told.sigma / (self.users.len() as f64).sqrt(), ..self.told }
    }
}

impl Plain for Pmlb {
    fn choose(&mut self, contexts: &[Vec<f64>]) -> Vec<usize> {
        let d = contexts[0].len();
        let told = self.common_told();
        if self.common_left > 0 {
            let arm = self.common.choose(contexts, &told, &vec![0.0; d]);
            return vec![arm; self.users.len()];
        }
        let theta = self.common.solve(d, &told).1;
        let shift = if self.compensated { theta } else { vec![0.0; d] };
        self.users.iter_mut().map(|user| user.choose(contexts, &shift)).collect()
    }

    fn learn(&mut self, contexts: &[Vec<f64>], arms: &[usize], rewards: &[f64]) {
        if self.common_left > 0 {
            self.common_left -= 1;
            let average = rewards.iter().sum::<f64>() / rewards.len() as f64;
            return self.common.learn(&contexts[arms[0]], average);
        }
        let theta = self.common.solve(contexts[0].len(), &self.common_told()).1;
        for i in 0..self.users.len() {
            let x = &contexts[arms[i]];
            self.users[i].learn(x, rewards[i] - dot(x, &theta));
        }
    }
}

/// `cmlb-warm` and `sclb-warm`: whole histories per user; a cluster's is all its members'.
pub struct Warm {
    pub users: Vec<Oful>,
    pub told: OfulParams,
    pub explore: usize,
    pub gamma: f64,
    pub min_share: f64,
    pub round: usize,
    pub labels: Option<Vec<usize>>,
    /// For `sclb-warm`: (α, C, δ) and the rounds left in the phase, and the phase.
    pub phases: Option<(f64, f64, f64, usize, i32)>,
}

impl Warm {
    pub fn cmlb(
        n: usize,
        d: usize,
        t: usize,
        alpha: f64,
        c: f64,
        min_share: f64,
        told: OfulParams,
    ) -> Self {
        let plan = Cmlb::new(n, d, t, alpha, c, min_share, told);
        Self {
            users: vec![Oful::default(); n],
            told,
            explore: plan.explore,
            gamma: plan.gamma,
            min_share,
            round: 0,
            labels: None,
            phases: None,
        }
    }

    pub fn sclb(n: usize, d: usize, alpha: f64, c: f64, told: OfulParams) -> Self {
        let mut warm = Self::cmlb(n, d, 2, alpha, c, 1.0, told);
        warm.phases = Some((alpha, c, told.delta, 0, 0));
        warm
    }

    fn next_phase(&mut self, d: usize) {
        let Some((alpha, c, delta, 0, phase)) = self.phases else { return };
        let (phase, n) = (phase + 1, self.users.len());
        let rounds = 1usize << phase;
        self.told.delta = delta / rounds as f64;
        let share = f64::from(phase).powi(-2);
        let plan = Cmlb::new(n, d, rounds, alpha, c, share, self.told);
        (self.explore, self.gamma, self.min_share) = (plan.explore, plan.gamma, share);
        self.labels = None;
        self.phases = Some((alpha, c, delta, rounds, phase));
    }
}

impl Plain for Warm {
    fn choose(&mut self, contexts: &[Vec<f64>]) -> Vec<usize> {
        let d = contexts[0].len();
        let zero = vec![0.0; d];
        self.next_phase(d);
        if self.labels.is_none() && self.round >= self.explore {
            let estimates: Vec<Vec<f64>> =
                self.users.iter().map(|user| user.solve(d, &self.told).1).collect();
            self.labels = Some(maximal_cluster(&estimates, self.gamma, self.min_share));
        }
        let n = self.users.len();
        let Some(labels) = &self.labels else {
            return self.users.iter().map(|u| u.choose(contexts, &self.told, &zero)).collect();
        };
        let mut arms = vec![usize::MAX; n];
        for i in 0..n {
            if arms[i] == usize::MAX {
                let members: Vec<usize> = (0..n).filter(|&j| labels[j] == labels[i]).collect();
                let mut pooled = Oful::default();
                for &member in &members {
                    pooled.history.extend(self.users[member].history.iter().cloned());
                }
                let arm = pooled.choose(contexts, &self.told, &zero);
                for member in members {
                    arms[member] = arm;
                }
            }
        }
        arms
    }

    fn learn(&mut self, contexts: &[Vec<f64>], arms: &[usize], rewards: &[f64]) {
        self.round += 1;
        if let Some((.., left, _)) = &mut self.phases {
            *left -= 1;
        }
        for i in 0..self.users.len() {
            self.users[i].learn(&contexts[arms[i]], rewards[i]);
        }
    }
}

/// `pmlb-warm`: ridge regression of each user's whole history towards the common estimate.
pub struct PmlbWarm {
    pub users: Vec<Oful>,
    pub bounds: Vec<f64>,
    pub told: OfulParams,
    pub mean: Vec<f64>,
    pub common_left: usize,
    pub epoch_length: usize,
    pub epoch_left: usize,
    pub in_common: bool,
}

impl PmlbWarm {
    pub fn new(n: usize, d: usize, t: usize, told: OfulParams) -> Self {
        let common = (t as f64).sqrt().floor() as usize;
        Self {
            users: vec![Oful::default(); n],
            bounds: vec![told.norm_bound; n],
            told,
            mean: vec![0.0; d],
            common_left: common,
            epoch_length: ((t - common) as f64).sqrt().ceil() as usize,
            epoch_left: 0,
            in_common: true,
        }
    }

    fn pooled(&self) -> Oful {
        Oful { history: self.users.iter().flat_map(|user| user.history.clone()).collect() }
    }

    /// θ̂_i − m, where θ̂_i = V⁻¹(b + λm).
    fn difference(&self, user: &Oful) -> Vec<f64> {
        let corrected = Oful {
            history: user
                .history
                .iter()
                .map(|(x, y)| (x.clone(), y - dot(x, &self.mean)))
                .collect(),
        };
        corrected.solve(self.mean.len(), &self.told).1
    }
}

impl Plain for PmlbWarm {
    fn choose(&mut self, contexts: &[Vec<f64>]) -> Vec<usize> {
        let d = contexts[0].len();
        if self.common_left > 0 {
            let arm = self.pooled().choose(contexts, &self.told, &vec![0.0; d]);
            return vec![arm; self.users.len()];
        }
        if self.epoch_left == 0 {
            if !self.in_common {
                for i in 0..self.users.len() {
                    let centre = self.difference(&self.users[i]);
                    let told = OfulParams { norm_bound: self.bounds[i], ..self.told };
                    self.bounds[i] = self.users[i].largest_norm_around(&centre, &told);
                }
                self.told.delta /= 2.0;
                self.epoch_length *= 2;
            }
            self.in_common = false;
            self.mean = self.pooled().solve(d, &self.told).1;
            self.epoch_left = self.epoch_length;
        }
        (0..self.users.len())
            .map(|i| {
                let told = OfulParams { norm_bound: self.bounds[i], ..self.told };
                let corrected = Oful {
                    history: (self.users[i].history.iter())
                        .map(|(x, y)| (x.clone(), y - dot(x, &self.mean)))
                        .collect(),
                };
                corrected.choose(contexts, &told, &self.mean)
            })
            .collect()
    }

    fn learn(&mut self, contexts: &[Vec<f64>], arms: &[usize], rewards: &[f64]) {
        if self.common_left > 0 {
            self.common_left -= 1;
        } else {
            self.epoch_left -= 1;
        }
        for i in 0..self.users.len() {
            self.users[i].learn(&contexts[arms[i]], rewards[i]);
        }
    }
}
